"""The operator dialects of the exporter: edge and backend operators, and the rules of each."""
