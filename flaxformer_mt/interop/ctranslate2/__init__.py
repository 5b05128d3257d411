"""CTranslate2 models (https://github.com/OpenNMT/CTranslate2), written."""
