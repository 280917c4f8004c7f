"""Decoding images and carrying out their first resize."""
