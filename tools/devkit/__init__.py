"""What `./dev` is made of. Standard library only: it runs before anything is installed.

console      running steps: what runs, for how long, and the tail of its log when it fails
machine      Debian packages: what is missing, and how it is installed
environment  .venv, what pip puts into it, and what the tests run against: jars, an S3 server
building     CMake presets
outcome      rows of counts, skip reasons, and the closing line
testing      ./dev test
sanitizing   ./dev sanitize
linting      ./dev lint
benching     ./dev bench and ./dev docs
commands     the command line
"""
