package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"vobo/internal/callbacks"
	"vobo/internal/store"
)

// keyringCmd keeps the keys that sign links. A running server takes a change up within 5 s.
type keyringCmd struct {
	Rotate  keyringRotate  `cmd:"" help:"Make a new active key; the present one is retired: it verifies and never signs again."`
	List    keyringList    `cmd:"" help:"List keys by fingerprint."`
	Retire  keyringRetire  `cmd:"" help:"Retire a key that is not active."`
	Destroy keyringDestroy `cmd:"" help:"Destroy a retired key: its links stop working for good."`
}

type ringFlags struct {
	database
	ringSetting
}

// change loads the ring, changes it, saves it and has the database remember it.
func (r *ringFlags) change(c *console, change func(*callbacks.Ring) error) error {
	source, err := ringSource(r.database, r.ringSetting)
	if err != nil {
		return err
	}
	if callbacks.IsInline(source) {
		return errors.New("VOBO_KEYRING holds the ring itself; change it where it is kept, or use a file")
	}
	ring, err := callbacks.LoadKeyRing(source)
	if err != nil {
		return err
	}
	return withMigrated(c, r.database, func(ctx context.Context, st *store.Store) error {
		if err := change(ring); err != nil {
			return err
		}
		if err := rememberRing(ctx, st, ring); err != nil {
			return err
		}
		if err := ring.Save(source); err != nil {
			return err
		}
		return printRing(c, ring)
	})
}

func printRing(c *console, ring *callbacks.Ring) error {
	rows := [][]string{{"KEY", "STATE", "FINGERPRINT"}}
	for _, f := range ring.Fingerprints() {
		rows = append(rows, []string{f.Kid, string(f.Status), hex.EncodeToString(f.SHA256[:8])})
	}
	return printTable(c, rows)
}

type keyringRotate struct{ ringFlags }

// Run implements the command.
func (k *keyringRotate) Run(c *console) error {
	return k.change(c, func(r *callbacks.Ring) error { return r.Rotate(rand.Reader) })
}

type keyringRetire struct {
	ringFlags
	Kid string `arg:""`
}

// Run implements the command.
func (k *keyringRetire) Run(c *console) error {
	return k.change(c, func(r *callbacks.Ring) error { return r.Retire(k.Kid) })
}

type keyringDestroy struct {
	ringFlags
	Kid string `arg:""`
	Yes bool   `help:"Do it: links signed with this key can never work again."`
}

// Run implements the command.
func (k *keyringDestroy) Run(c *console) error {
	if !k.Yes {
		return fmt.Errorf("links signed with %s can never work again; say --yes to destroy it", k.Kid)
	}
	return k.change(c, func(r *callbacks.Ring) error { return r.Destroy(k.Kid) })
}

type keyringList struct {
	ringFlags
	JSON bool `help:"Print JSON."`
}

type ringKeyOut struct {
	Kid    string `json:"kid"`
	Status string `json:"status"`
	SHA256 string `json:"sha256"`
}

// Run implements the command.
func (k *keyringList) Run(c *console) error {
	source, err := ringSource(k.database, k.ringSetting)
	if err != nil {
		return err
	}
	ring, err := callbacks.LoadKeyRing(source)
	if err != nil {
		return err
	}
	if !k.JSON {
		return printRing(c, ring)
	}
	out := []ringKeyOut{}
	for _, f := range ring.Fingerprints() {
		out = append(out, ringKeyOut{f.Kid, string(f.Status), hex.EncodeToString(f.SHA256[:])})
	}
	return printJSON(c, out)
}
