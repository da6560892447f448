package main

import (
	"os"
	"strings"
	"time"
)

// serverZone is the zone that days are counted in and times are shown in where a
// person has none: TZ, else what /etc/localtime points to, else the system's own.
// Unlike time.Local it has its IANA name.
func serverZone() *time.Location {
	name := strings.TrimPrefix(os.Getenv("TZ"), ":")
	if name == "" {
		if target, err := os.Readlink("/etc/localtime"); err == nil {
			_, name, _ = strings.Cut(target, "/zoneinfo/")
		}
	}
	if name != "" {
		if zone, err := time.LoadLocation(name); err == nil {
			return zone
		}
	}
	return time.Local
}
