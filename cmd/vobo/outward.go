package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"vobo/internal/approval"
	"vobo/internal/callbacks"
	"vobo/internal/deliver"
	"vobo/internal/fault"
	"vobo/timers"
)

var sinkName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

// webhookSender is the one way out for webhooks and the event feed.
func (s settings) webhookSender() (*deliver.WebhookSender, error) {
	sender, err := deliver.NewWebhookSender(deliver.WebhookConfig{Allow: s.WebhookAllow, UserAgent: "Vobo/" + version()})
	if err != nil {
		return nil, errors.New(fault.As(err).Message) // it names the setting
	}
	return sender, nil
}

// sinks reads VOBO_SINKS: URL or NAME=URL each.
func (s settings) sinks() ([]approval.Sink, error) {
	sender, err := s.webhookSender()
	if err != nil {
		return nil, err
	}
	var all []approval.Sink
	var problems []error
	for i, entry := range s.Sinks {
		sink := approval.Sink{Name: fmt.Sprintf("sink%d", i+1), URL: strings.TrimSpace(entry)}
		if name, address, named := strings.Cut(sink.URL, "="); named && !strings.ContainsAny(name, ":/?") {
			sink = approval.Sink{Name: strings.TrimSpace(name), URL: strings.TrimSpace(address)}
		}
		switch {
		case !sinkName.MatchString(sink.Name):
			problems = append(problems, fmt.Errorf("VOBO_SINKS: the name %q must begin with a small letter and hold small letters, digits, - and _, at most 63", sink.Name))
		case slices.ContainsFunc(all, func(o approval.Sink) bool { return o.Name == sink.Name }):
			problems = append(problems, fmt.Errorf("VOBO_SINKS: there are two endpoints with the name %s; name them as NAME=URL", sink.Name))
		default:
			if err := sender.CheckURL(sink.URL); err != nil {
				problems = append(problems, fmt.Errorf("VOBO_SINKS: %s: %s", sink.Name, fault.As(err).Message))
			}
		}
		all = append(all, sink)
	}
	return all, errors.Join(problems...)
}

// outward is what goes out and proves itself by the file of secrets.
type outward struct {
	webhooks *deliver.WebhookSender
	sinks    []approval.Sink
	secrets  *callbacks.SecretsHolder
}

// openOutward reads it all before anything listens.
func openOutward(cfg settings) (*outward, error) {
	o := &outward{secrets: &callbacks.SecretsHolder{}}
	var err error
	if o.webhooks, err = cfg.webhookSender(); err != nil {
		return nil, err
	}
	if o.sinks, err = cfg.sinks(); err != nil {
		return nil, err
	}
	secrets, err := cfg.loadSecrets()
	if err != nil {
		return nil, err
	}
	o.secrets.Set(secrets)
	return o, nil
}

func sinkNames(all []approval.Sink) []string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	return names
}

// loadSecrets reads VOBO_WEBHOOK_SECRETS; without it there are no credentials and no sources.
func (s settings) loadSecrets() (*callbacks.Secrets, error) {
	if s.WebhookSecrets == "" {
		return &callbacks.Secrets{}, nil
	}
	secrets, err := callbacks.LoadSecrets(s.WebhookSecrets)
	if err != nil {
		return nil, fmt.Errorf("VOBO_WEBHOOK_SECRETS: %w", err)
	}
	return secrets, nil
}

// reloadSecrets takes up a changed file; one that cannot be read leaves the secrets in memory.
func (s settings) reloadSecrets(holder *callbacks.SecretsHolder) []timers.Reload {
	if s.WebhookSecrets == "" {
		return nil
	}
	return []timers.Reload{{Name: "file of webhook secrets", Do: func() error {
		secrets, err := callbacks.LoadSecrets(s.WebhookSecrets)
		if err == nil {
			holder.Set(secrets)
		}
		return err
	}}}
}
