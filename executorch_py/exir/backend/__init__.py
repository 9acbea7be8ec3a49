"""Delegation ahead of time: partitioners tag parts of a program, backends compile them to bytes."""
