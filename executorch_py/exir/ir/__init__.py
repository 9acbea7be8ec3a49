"""Shared vocabulary of all passes: specs, scalar types, facts about operators, graph helpers."""
