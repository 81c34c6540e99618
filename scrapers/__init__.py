"""What a provider's page says, as printed: one module per source, no conversion and no renaming."""
