package main

import (
	"fmt"

	"vobo/internal/simulate"
)

// simulateCmd runs scenarios.
type simulateCmd struct {
	Files []string `arg:"" name:"file" help:"Scenario files, or folders with *.scenario.yaml."`
}

// Run implements the command. A scenario that fails does not keep the others from running.
func (s *simulateCmd) Run(c *console) error {
	files, err := expand(s.Files, isScenario)
	if err != nil {
		return err
	}
	failed := 0
	for _, file := range files {
		if len(files) > 1 {
			fmt.Fprintln(c.out, "#", file)
		}
		if err := simulate.Run(file, c.out); err != nil {
			fmt.Fprintln(c.err, "vobo:", describe(err))
			failed++
		}
	}
	if failed > 0 {
		if len(files) > 1 {
			fmt.Fprintf(c.err, "vobo: %d of %s failed\n", failed, plural(len(files), "scenario"))
		}
		return errQuiet
	}
	return nil
}
