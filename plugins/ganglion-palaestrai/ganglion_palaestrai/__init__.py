"""What documents and classes written for palaestrAI need."""
