"""Delegation ahead of time: partitioners tag parts of a program, backends turn those parts into bytes."""
