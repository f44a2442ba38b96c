"""The checks of packages. `ALL` has them by the name that packaging/test takes, with what they show."""

from . import archive, deb, homebrew, image, installer, npm, reading, wheel, wrong_machine

ALL = {
    "headers": (reading.check, "headers of programs are read, and damaged ones refused"),
    "archive": (archive.check, "the archive runs where it is unpacked"),
    "sums": (archive.check_sums, "SHA256SUMS fits"),
    "same-bytes": (archive.check_same_bytes, "a second packaging gives the same bytes"),
    "npx": (npm.check_npx, "npx ./FILE, offline"),
    "npm": (npm.check_install, "npm install, and what the launcher says without a program"),
    "launcher": (npm.check_launcher, "signals once, exit codes, bytes of the streams"),
    "uvx": (wheel.check_uvx, "uvx --from FILE, offline"),
    "pip": (wheel.check_pip, "pip install into an empty environment, and uninstall"),
    "deb": (deb.check_folder, "dpkg installs, upgrades, removes and purges in an empty folder"),
    "deb-chroot": (deb.check_chroot, "apt installs it in a Debian, with its dependencies"),
    "installer": (installer.check, "install.sh, a wrong hash, and machines without a package"),
    "formula": (homebrew.check_hashes, "the hashes of the formula"),
    "ruby": (homebrew.check_ruby, "the syntax of the formula"),
    "brew": (homebrew.check_brew, "brew install"),
    "image": (image.check_plain, "the image runs"),
    "image-node-uv": (image.check_node_uv, "the image with Node.js and uv runs"),
    "wrong-release": (wrong_machine.check_release, "a program of another processor is packed with --printer only"),
    "wrong-npm": (wrong_machine.check_npm, "npm and the launcher refuse another processor"),
    "wrong-pip": (wrong_machine.check_pip, "pip refuses another processor"),
    "wrong-dpkg": (wrong_machine.check_dpkg, "dpkg refuses another processor"),
}
