# Bash completion of assay. Words and options are read from `assay … --help`, so
# that they cannot fall behind the program.
_assay() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local -a path=(assay)
  local word help
  case $previous in
    --output | --suite-file | --targets-file | --tls-ca | --tls-cert | --tls-key)
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      return
      ;;
    --format)
      mapfile -t COMPREPLY < <(compgen -W "table jsonl csv json junit html markdown" -- "$current")
      return
      ;;
    --mode)
      mapfile -t COMPREPLY < <(compgen -W "validate benchmark both" -- "$current")
      return
      ;;
    --suite)
      mapfile -t COMPREPLY < <(compgen -W "$(assay suites 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$current")
      return
      ;;
  esac
  # The command so far: leading words that are no options.
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word == -* ]] && break
    path+=("$word")
  done
  help=$("${path[@]}" --help 2>/dev/null) || help=$(assay --help 2>/dev/null)
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(grep -oE -- '--[a-z][a-z-]+' <<<"$help"$'\n'"$(assay --help 2>/dev/null)" | sort -u)" -- "$current")
  elif [[ ${path[1]:-} == compare ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  elif [[ ${path[1]:-} =~ ^(watch|show|explain|report|cancel)$ ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(assay jobs --limit 20 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -W "$(awk '/^Subcommands:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }' <<<"$help")" -- "$current")
  fi
}
complete -F _assay assay
