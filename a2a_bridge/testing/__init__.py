"""What authors of extensions test with: contracts, agents, messages. Importing it imports none of them."""
