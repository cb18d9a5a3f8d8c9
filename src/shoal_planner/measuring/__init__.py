"""Calibration: costs measured on this machine."""
