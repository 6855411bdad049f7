# Runs a command ($4 on) with its outputs in files of a folder ($1), and tells how it ended and what it wrote: at most $2 bytes of each,
# in base64. Its input is $3, a file, or nothing.
folder=$1 most=$2 input=${3:-/dev/null}
shift 3
mkdir -p -m 700 -- "$folder" || exit 125
# An interrupt is for the command; this script tells of its end.
trap : INT
# `exec` takes a program and never a builtin; the subshell is what it replaces.
(exec "$@" <"$input" >"$folder/out" 2>"$folder/err")
echo "ended $?"
for name in out err; do
    head -c "$most" "$folder/$name" | base64 | tr -d '\n'
    echo
done
rm -rf -- "$folder"
