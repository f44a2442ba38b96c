"""The formats of packages, one in each file. `ALL` has the function that makes each, in their order."""

from . import archive, deb, homebrew, image, installer, npm, static, wheel

ALL = {
    "archive": archive.make,
    "static": static.make,
    "npm": npm.make,
    "wheel": wheel.make,
    "deb": deb.make,
    "image": image.make_plain,
    "image-node-uv": image.make_node_uv,
    # These two contain the hashes of all archives in the output folder.
    "homebrew": homebrew.make,
    "installer": installer.make,
}
