"""Programs with test cases inside (.bpte): inputs, and the outputs that they should give."""
