# Shared by everything that runs in a sandbox on our behalf. `holm_fail CODE` is defined by whoever includes this.
# A folder is entered first and judged by where that led, so that no link can be swapped in between.

# Why $1 is no folder that can be entered.
holm_why() {
  if [ -d "$1" ]; then holm_fail 14; fi
  if [ -e "$1" ]; then holm_fail 12; fi
  while [ ! -e "$1" ] && [ "$1" != / ]; do set -- "${1%/*}"; set -- "${1:-/}"; done
  if [ -d "$1" ]; then holm_fail 11; fi
  holm_fail 12
}

# Sets holm_here to the folder that this process is in, whatever its name ends with.
holm_look() { holm_here=$(pwd -P; printf x); holm_here=${holm_here%?x}; }

# Goes to the root of confinement.
holm_enter() { cd / && cd -P -- "$holm_root" || holm_fail 11; holm_look; holm_real=$holm_here; }

# Goes into the folder $1, an absolute path, which has to lie below the root. From `/`, since a link may mean where we are.
holm_at() {
  cd / && cd -P -- "$1" 2>/dev/null || holm_why "$1"
  holm_look
  case $holm_here/ in "$holm_real"/*) ;; *) holm_fail 10 ;; esac
}

# Sets holm_word to what $1 stands for: bytes that no text can carry are written as \0ooo.
holm_decode() { holm_word=$(printf '%b.' "$1"); holm_word=${holm_word%.}; }
