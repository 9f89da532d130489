"""A virtual environment with the packages that tests need from PyPI:

    python3 python_packages.py FOLDER NAME==VERSION...

Does nothing where FOLDER has just these.
"""

import pathlib
import subprocess
import sys
import venv


def main():
    folder = pathlib.Path(sys.argv[1])
    packages = sys.argv[2:]
    marker = folder / "packages.txt"
    if marker.exists() and marker.read_text().split() == packages:
        return
    venv.create(folder, with_pip=True, clear=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    subprocess.run([folder / "bin" / "python", *install, *packages], check=True)
    marker.write_text("\n".join(packages) + "\n")


if __name__ == "__main__":
    main()
