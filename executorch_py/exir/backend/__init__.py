"""Delegation ahead of time: partitioners tag parts of a program, backends make bytes of them."""
