# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# For tests at a terminal, on top of step.sh, or of what is on top of that:
#	talk STEP... -- COMMAND...  tests/lib/talk.py; ends the test where there is no Python
#	screen_here                 whether there are tmux and vim, for the following
#	screen_begin COMMAND        runs a shell's COMMAND in a screen of 80 columns and 24 rows
#	screen_type KEY...          as tmux send-keys
#	screen_shows REGEX          whether a line of the screen matches
#	screen_resize COLS ROWS     changes its size
#	screen_end                  removes it
#	vim_plain                   vim without a user's settings: words of a command
#	vim_types WORD              once vim is in the screen: WORD is in its text, and its size is shown
#	vim_follows CHECK           the screen is resized, and vim with it

command -v python3 >/dev/null || skip_all "needs python3"

talk() {
	timeout -k 5 900 python3 "${top_srcdir:?}/tests/lib/talk.py" "$@"
}

screen_here() {
	command -v tmux >/dev/null && command -v vim >/dev/null
}

screen_tmux() {
	tmux -S "${tmpdir:?}/tmux" "$@"
}

screen_begin() {
	screen_tmux -f /dev/null new-session -d -x 80 -y 24 "$1"
	at_exit "tmux -S '$tmpdir/tmux' kill-server 2>/dev/null"
}

screen_type() {
	screen_tmux send-keys "$@"
}

screen_shows() {
	screen_tmux capture-pane -p | grep -q -e "$1"
}

screen_resize() {
	screen_tmux resize-window -x "$1" -y "$2"
}

screen_end() {
	screen_tmux kill-server
}

# shellcheck disable=SC2034 # for the tests
vim_plain='vim -u NONE -i NONE -n'

# The status line has the size that vim knows of, and vim draws it again when that changes.
vim_types() {
	eventually screen_shows '^~'
	screen_type "i$1" Escape
	eventually screen_shows "^$1"
	screen_type ':set laststatus=2 statusline=%{&columns}x%{&lines}' Enter
	eventually screen_shows '^80x24'
}

vim_follows() {
	screen_resize 100 30
	ok "$1" eventually screen_shows '^100x30'
}
