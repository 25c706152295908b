"""How the shipped checkpoints were made: corpus, problems, tokenizer, trainer, model card."""
