# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Extracts what check.sh checks from documents and manual pages. One line each: KIND, FILE:LINE and text, separated by tabs.
#   command   a line of an indented block; .Dl of a manual page
#   span      text between backquotes; the line number is that of the paragraph's first line
#   link      the target of [...](...)
#   anchor    the anchor that GitHub makes for a heading; FILE without a line number
#   prose     everything else, a line or paragraph
# Fenced blocks hold output and pictures: they count as prose.
function say(kind, where, text) { printf "%s\t%s\t%s\n", kind, where, text }
function paragraph(    rest, at, text) {
    if (whole == "") return
    rest = whole
    while (match(rest, /`[^`]+`/)) {
        say("span", file ":" begin, substr(rest, RSTART + 1, RLENGTH - 2))
        rest = substr(rest, RSTART + RLENGTH)
    }
    rest = whole
    gsub(/`[^`]+`/, "", rest)
    while (match(rest, /\]\([^()]+\)/)) {
        say("link", file ":" begin, substr(rest, RSTART + 2, RLENGTH - 3))
        rest = substr(rest, RSTART + RLENGTH)
    }
    say("prose", file ":" begin, whole)
    whole = ""
}
FNR == 1 {
    paragraph()
    file = FILENAME
    sub(/^\.\//, "", file)
    is_man = file ~ /\.[0-9]$/
    fence = block = 0
    blank = 1
}
is_man {
    text = $0
    if (sub(/^\.Dl /, "", text)) say("command", file ":" FNR, text)
    say("prose", file ":" FNR, $0)
    next
}
/^```/ { paragraph(); fence = !fence; blank = 0; next }
fence { say("prose", file ":" FNR, $0); next }
/^$/ { paragraph(); blank = 1; next }
/^    / && (blank || block) { say("command", file ":" FNR, substr($0, 5)); block = 1; blank = 0; next }
{ block = blank = 0 }
/^#+ / {
    paragraph()
    text = tolower($0)
    sub(/^#+ /, "", text)
    gsub(/[^a-z0-9 _-]/, "", text)
    gsub(/ /, "-", text)
    say("anchor", file, text)
    next
}
/^\|/ || /^[-*] / { paragraph() }
{
    if (whole == "") begin = FNR
    whole = whole == "" ? $0 : whole " " $0
}
/^\|/ { paragraph() }
END { paragraph() }
