# One command. What its shell itself says goes nowhere; where the command is, and how it ends, is told in both outputs.
exec 3>&2 2>/dev/null
holm_say() { printf '\036holm:%s:%s\n' "$holm_id" "$1"; printf '\036holm:%s:%s\n' "$holm_id" "$1" >&3; }
holm_fail() { holm_say "fail:$1"; exit 0; }
holm_shell=$(command -v sh)
holm_apart=$(command -v setsid)
holm_environment=$(command -v env)
holm_enter
holm_at "$holm_cwd"

# The program, as the kernel would find it: no builtin, no function.
case $1 in
  */*)
    if [ ! -e "$1" ]; then holm_fail 20; fi
    if [ ! -f "$1" ] || [ ! -x "$1" ]; then holm_fail 21; fi ;;
  *)
    holm_found=20
    set -f
    IFS=:
    for holm_folder in $holm_path; do
      if [ -f "${holm_folder:-.}/$1" ]; then
        if [ -x "${holm_folder:-.}/$1" ]; then holm_found=; break; fi
        holm_found=21
      fi
    done
    unset IFS
    set +f
    if [ -n "$holm_found" ]; then holm_fail "$holm_found"; fi ;;
esac
