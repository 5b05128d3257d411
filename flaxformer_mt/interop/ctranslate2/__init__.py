"""CTranslate2 models, written."""
