# Runs the TypeScript on standard input with the first program that can. None of them reads it from there, hence the file,
# which lies where the code expects to be: its imports are looked for beside it.
file="./.code-run-$$.ts"
trap 'rm -f "$file"' EXIT
cat >"$file" || exit
if command -v ts-node >/dev/null; then
    ts-node -T -O '{"module":"commonjs"}' "$file" "$@"
elif command -v tsx >/dev/null; then
    tsx "$file" "$@"
elif node --experimental-strip-types -e 0 >/dev/null 2>&1; then
    node --no-warnings --experimental-strip-types "$file" "$@"
else
    echo 'TypeScript needs `ts-node` or `tsx` in the sandbox (npm install -g tsx), or Node 22.6 or newer' >&2
    exit 127
fi
