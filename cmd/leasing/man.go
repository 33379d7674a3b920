package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man FOLDER",
		Short:   "Write the manual pages, one for each command",
		Example: "  leasing man .",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return writePages(cmd.Root(), args[0])
		},
	}
}

// writePages writes the page of a command and those of its subcommands.
func writePages(cmd *cobra.Command, folder string) error {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			if err := writePages(sub, folder); err != nil {
				return err
			}
		}
	}
	cmd.DisableAutoGenTag = true
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	header := &doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Manual: "leasing", Source: "leasing " + version(), Date: &time.Time{}}
	var page bytes.Buffer
	if err := doc.GenMan(cmd, header, &page); err != nil {
		return err
	}
	page.WriteString(manual)
	return os.WriteFile(filepath.Join(folder, name+".1"), page.Bytes(), 0o644)
}

// manual is the end of each page.
const manual = `.SH EXIT STATUS
.TP
.B 0
Done.
.TP
.B 1
The answer is no: see each command.
.TP
.B 75
Another lease has the name. \\fBrun --busy-code\\fP replaces this code.
.TP
.B 124
The lease was lost, and the command was stopped.
.TP
.B 125
leasing itself failed, or its command line is wrong.
.TP
.B 126
The command cannot be run.
.TP
.B 127
The command was not found.
.TP
.B 128+n
Signal n ended the command, or the wait.
.TP
.B other
The exit status of the command.
.SH ENVIRONMENT
.TP
.B LEASING_URL
The URL of the backend, unless \\fB--url\\fP or \\fB--local\\fP is set.
.TP
.B LEASING_CONFIG
The config file.
.TP
.B LEASING_ID
The ID for \\fBrelease\\fP. It is the key to the lease.
.TP
.B XDG_CONFIG_HOME, XDG_STATE_HOME, HOME
The folders of the files below.
.PP
\\fBrun\\fP and \\fBelect\\fP set LEASING_NAME, LEASING_TOKEN, LEASING_ID and LEASING_OWNER for the command.
.SH FILES
.TP
.I ~/.config/leasing/config.json
A JSON object with "url" and "owner".
.TP
.I ~/.local/state/leasing/leases.db
The leases of \\fB--local\\fP.
`
