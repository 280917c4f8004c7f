"""Manifests, which list the images of a dataset, and readers that create them."""

from gpufeed.records.array_record import read_array_record as read_array_record
from gpufeed.records.beton import read_beton as read_beton
from gpufeed.records.concat import concat as concat
from gpufeed.records.folder import read_folder as read_folder
from gpufeed.records.huggingface import read_huggingface as read_huggingface
from gpufeed.records.manifest import Manifest as Manifest
from gpufeed.records.nabirds import read_nabirds as read_nabirds
from gpufeed.records.saved import read_manifest as read_manifest
from gpufeed.records.table import read_table as read_table
from gpufeed.records.webdataset import read_webdataset as read_webdataset

__all__ = [
    "Manifest",
    "concat",
    "read_array_record",
    "read_beton",
    "read_folder",
    "read_huggingface",
    "read_manifest",
    "read_nabirds",
    "read_table",
    "read_webdataset",
]
