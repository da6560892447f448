package main

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCmd prints a script that a shell completes commands and flags with.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is shown below the usage.
func (completionCmd) Help() string {
	return `bash: source <(vobo completion bash)
zsh:  source <(vobo completion zsh)
fish: vobo completion fish | source`
}

// Run implements the command.
func (s *completionCmd) Run(c *console, k *kong.Context) error {
	paths := commandPaths(k.Model.Node, "")
	var script string
	switch s.Shell {
	case "bash":
		script = fmt.Sprintf(bashCompletion, arms(paths), words(paths))
	case "zsh":
		script = fmt.Sprintf(zshCompletion, arms(paths), words(paths))
	case "fish":
		script = fishScript(paths)
	}
	_, err := fmt.Fprint(c.out, script)
	return err
}

// commandPath is a command and what may follow it.
type commandPath struct {
	path  string // " instances start"; "" for vobo itself
	words []string
}

func commandPaths(n *kong.Node, path string) []commandPath {
	var next []string
	var below []commandPath
	for _, child := range n.Children {
		if child.Hidden {
			continue
		}
		next = append(next, child.Name)
		below = append(below, commandPaths(child, path+" "+child.Name)...)
	}
	for _, f := range n.Flags {
		if !f.Hidden {
			next = append(next, "--"+f.Name)
		}
	}
	for _, p := range n.Positional {
		if p.Enum != "" {
			next = append(next, p.EnumSlice()...)
		}
	}
	if path != "" {
		next = append(next, "--help")
	}
	return append([]commandPath{{path, next}}, below...)
}

// arms writes the cases by which a word is known as a command.
func arms(paths []commandPath) string {
	var names []string
	for _, p := range paths {
		if p.path != "" {
			names = append(names, `"`+p.path+`"`)
		}
	}
	return "      " + strings.Join(names, "|") + ") at=\"$at $word\";;\n"
}

// words writes what may follow each command, as the arms of a case.
func words(paths []commandPath) string {
	var b strings.Builder
	for _, p := range paths {
		fmt.Fprintf(&b, "    %q) known=%q;;\n", p.path, strings.Join(p.words, " "))
	}
	return b.String()
}

const bashCompletion = `_vobo() {
  local cur="${COMP_WORDS[COMP_CWORD]}" at="" known="" word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${COMP_WORDS[i]}"
    case "$at $word" in
%s    esac
  done
  case "$at" in
%s  esac
  COMPREPLY=($(compgen -W "$known" -- "$cur"))
}
complete -o default -F _vobo vobo
`

const zshCompletion = `#compdef vobo
_vobo() {
  local at="" known="" word i
  for ((i = 2; i < CURRENT; i++)); do
    word="${words[i]}"
    case "$at $word" in
%s    esac
  done
  case "$at" in
%s  esac
  compadd -- ${=known}
  _files
}
compdef _vobo vobo
`

func fishScript(paths []commandPath) string {
	var b strings.Builder
	b.WriteString("function __vobo_words\n  set -l at \"\"\n  for word in (commandline -opc)[2..-1]\n    switch \"$at $word\"\n      case")
	for _, p := range paths {
		if p.path != "" {
			fmt.Fprintf(&b, " %q", p.path)
		}
	}
	b.WriteString("\n        set at \"$at $word\"\n    end\n  end\n  switch \"$at\"\n")
	for _, p := range paths {
		fmt.Fprintf(&b, "    case %q\n      printf '%%s\\n' %s\n", p.path, strings.Join(p.words, " "))
	}
	b.WriteString("  end\nend\ncomplete -c vobo -a '(__vobo_words)'\n")
	return b.String()
}
