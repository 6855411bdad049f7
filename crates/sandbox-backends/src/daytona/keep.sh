# Commits what nobody committed, and tells which branches have work. Arguments: the repository, the commit that it began
# with, the message of a commit or nothing, and where to write a bundle of what is not at the remote.
holm_git() {
  git -c core.hooksPath=/dev/null -c commit.gpgSign=false -c core.fsmonitor=false \
    -c user.name=harness -c user.email=harness@local "$@"
}
cd -- "$1" && mkdir -p -- "${4%/*}" || exit 1
holm_base=$2
# A repository that is broken has work all the same: nobody may take it for one without.
git cat-file -e "$holm_base^{commit}" && holm_state=$(holm_git status --porcelain) || exit 1
if [ -n "$3" ] && [ -n "$holm_state" ]; then
  holm_git add --all && holm_git commit --quiet --no-verify -m "$3" || exit 1
  printf 'holm-commit %s\n' "$(git rev-parse HEAD)"
fi
# Commits on no branch would be forgotten.
if ! git symbolic-ref --quiet HEAD >/dev/null; then
  if [ "$(git rev-list --count HEAD --not "$holm_base" --branches)" -gt 0 ]; then
    git branch "holm-detached-$(git rev-parse --short HEAD)" HEAD || exit 1
  fi
fi
git for-each-ref --format='%(objectname) %(refname:short)' refs/heads >"$4.all" || exit 1
while read -r holm_tip holm_name; do
  holm_count=$(git rev-list --count "$holm_tip" --not "$holm_base") || exit 1
  if [ "$holm_count" -eq 0 ]; then continue; fi
  holm_where=here
  if [ "$(git rev-parse --quiet --verify "refs/remotes/origin/$holm_name")" = "$holm_tip" ]; then holm_where=pushed; fi
  printf 'holm-branch %s %s %s %s\n' "$holm_where" "$holm_count" "$holm_tip" "$holm_name"
done <"$4.all" >"$4.list" || exit 1
cat -- "$4.list"
if grep -q '^holm-branch here ' "$4.list"; then
  {
    sed -n 's|^holm-branch here [0-9]* [0-9a-f]* |refs/heads/|p' "$4.list"
    printf '^%s\n' "$holm_base"
  } | holm_git bundle create --quiet "$4" --stdin || exit 1
fi
rm -f -- "$4.all" "$4.list"
