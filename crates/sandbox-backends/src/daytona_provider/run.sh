# Runs a command ($4 on) with its outputs in files of a folder ($1), and tells how it ended and what it wrote: at most $2 bytes of each,
# in base64. Its input is $3, a file, or nothing.
folder=$1 most=$2 input=${3:-/dev/null}
shift 3
mkdir -p -m 700 -- "$folder" || exit 125
# What this shell says of a command that was killed is no part of the answer.
exec 2>/dev/null
# An interrupt is for the command; this script tells of its end.
trap : INT
# `exec` takes a program and never a builtin; the subshell is what it replaces.
(exec "$@" <"$input" >"$folder/out" 2>"$folder/err")
code=$?
echo "ended $code"
for name in out err; do
    head -c "$most" "$folder/$name" | base64 | tr -d '\n'
    echo
done
# A command that was killed may be about to take this script and its answer with it: then whoever killed it asks for the files.
if [ $code -le 128 ]; then
    rm -rf -- "$folder"
fi
