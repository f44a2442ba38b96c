"""The five producers; each module writes a document."""
