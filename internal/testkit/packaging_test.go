package testkit

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// TestPackaging reads the container files, which no test can run: where this
// suite runs there may be no container engine.
func TestPackaging(t *testing.T) {
	t.Parallel()
	t.Run("the image is static, small and not root's", theImageIsSmallAndNotRoots)
	t.Run("the Dockerfile check finds what it refuses", theDockerfileCheckFindsFaults)
	t.Run("compose starts everything with settings that exist", composeStartsEverything)
	t.Run("the compose check finds what it refuses", theComposeCheckFindsFaults)
	t.Run("the build gets the sources and nothing private", theBuildContextHasTheSources)
}

// settings are the VOBO_ variables that the product knows; a start with another
// one is refused.
var settings = []string{
	"VOBO_DATABASE_URL", "VOBO_ADDR", "VOBO_BASE_URL", "VOBO_TRUSTED_PROXIES", "VOBO_SMTP_URL", "VOBO_MAIL_FROM",
	"VOBO_KEYRING", "VOBO_DEFINITIONS", "VOBO_PEOPLE", "VOBO_SWEEP_EVERY", "VOBO_ENV_NAME", "VOBO_WEBHOOK_ALLOW",
	"VOBO_WEBHOOK_SECRETS", "VOBO_DATABASE_DIRECT_URL", "VOBO_SINKS", "VOBO_DOCUMENTS", "VOBO_OIDC_ISSUER",
	"VOBO_OIDC_CLIENT_ID", "VOBO_OIDC_CLIENT_SECRET", "VOBO_LOG", "VOBO_URL", "VOBO_API_KEY",
}

var settingName = regexp.MustCompile(`\bVOBO_[A-Z_]+`)

func unknownSettings(text string) []string {
	var unknown []string
	for _, name := range settingName.FindAllString(text, -1) {
		if !slices.Contains(settings, name) && !strings.HasPrefix(name, "VOBO_ENV_") {
			unknown = append(unknown, name+" is not a setting of vobo")
		}
	}
	return unknown
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// instruction is one of a Dockerfile, with its continued lines joined.
type instruction struct{ name, rest string }

func parseDockerfile(text string) []instruction {
	var instructions []instruction
	var joined string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		if part, continued := strings.CutSuffix(line, `\`); continued {
			joined += part
			continue
		}
		name, rest, _ := strings.Cut(joined+line, " ")
		instructions = append(instructions, instruction{name, strings.Join(strings.Fields(rest), " ")})
		joined = ""
	}
	return instructions
}

var dockerInstructions = []string{
	"FROM", "ARG", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "ENV", "EXPOSE", "ENTRYPOINT", "CMD", "LABEL", "STOPSIGNAL", "HEALTHCHECK",
}

// dockerfileFaults returns what is wrong with a Dockerfile: each stage by its
// instructions, the last one also by what it makes of the image.
func dockerfileFaults(text string) []string {
	faults := unknownSettings(text)
	var final []instruction
	for _, in := range parseDockerfile(text) {
		if !slices.Contains(dockerInstructions, in.name) {
			faults = append(faults, in.name+" is not an instruction for here (ADD can fetch from anywhere: COPY)")
		}
		if in.name == "FROM" {
			final = nil
			if image := strings.Fields(in.rest)[0]; image != "scratch" && (!strings.Contains(image, ":") || strings.HasSuffix(image, ":latest")) {
				faults = append(faults, "FROM "+image+" names no version")
			}
		}
		final = append(final, in)
	}
	last := map[string]string{}
	for _, in := range final {
		last[in.name] = in.rest
	}
	uid, err := strconv.Atoi(strings.SplitN(last["USER"], ":", 2)[0])
	if err != nil || uid < 1000 {
		faults = append(faults, "USER "+last["USER"]+" is not the number of an ordinary user")
	}
	if last["FROM"] != "scratch" {
		faults = append(faults, "the image is made from "+last["FROM"]+", not from scratch")
	}
	if last["HEALTHCHECK"] == "" {
		faults = append(faults, "the image has no health check")
	}
	for _, name := range []string{"ENTRYPOINT", "CMD"} {
		if !strings.HasPrefix(last[name], "[") {
			faults = append(faults, name+" needs a shell, or is missing")
		}
	}
	if _, runs := last["RUN"]; runs {
		faults = append(faults, "RUN in the last stage, where there is nothing to run")
	}
	if strings.Count(text, "go build") != strings.Count(text, "CGO_ENABLED=0 go build") {
		faults = append(faults, "a build without CGO_ENABLED=0")
	}
	for _, part := range []string{"-trimpath", "timetzdata"} {
		if !strings.Contains(text, part) {
			faults = append(faults, "the build lacks "+part)
		}
	}
	if !slices.ContainsFunc(final, func(in instruction) bool {
		return in.name == "COPY" && strings.Contains(in.rest, "ca-certificates.crt")
	}) {
		faults = append(faults, "the image has no CA certificates")
	}
	return faults
}

func theImageIsSmallAndNotRoots(t *testing.T) {
	t.Parallel()
	for _, fault := range dockerfileFaults(readFile(t, "Dockerfile")) {
		t.Error(fault)
	}
}

func theDockerfileCheckFindsFaults(t *testing.T) {
	t.Parallel()
	good := readFile(t, "Dockerfile")
	for name, bad := range map[string]string{
		"root":         strings.Replace(good, "USER 65532:65532", "USER 0", 1),
		"name":         strings.Replace(good, "USER 65532:65532", "USER vobo", 1),
		"no user":      strings.Replace(good, "USER 65532:65532\n", "", 1),
		"ADD":          good + "ADD https://example.com/x /x\n",
		"setting":      strings.Replace(good, "VOBO_ADDR", "VOBO_ADRR", 1),
		"no zone data": strings.ReplaceAll(good, "timetzdata", "tz"),
		"dynamic":      strings.Replace(good, "CGO_ENABLED=0", "CGO_ENABLED=1", 1),
		"base":         strings.Replace(good, "FROM scratch", "FROM debian:latest", 1),
		"certificates": strings.ReplaceAll(good, "ca-certificates.crt", "x"),
		"shell":        strings.Replace(good, `CMD ["serve"]`, "CMD serve", 1),
	} {
		if bad == good {
			t.Errorf("%s: the case changes nothing", name)
		}
		if len(dockerfileFaults(bad)) == 0 {
			t.Errorf("%s is let in", name)
		}
	}
}

// composeFile is the part of the Compose specification that ours uses.
type composeFile struct {
	Name     string                    `yaml:"name"`
	Services map[string]composeService `yaml:"services"`
	Volumes  map[string]any            `yaml:"volumes"`
}

type composeService struct {
	Build     string `yaml:"build"`
	Image     string `yaml:"image"`
	Restart   string `yaml:"restart"`
	DependsOn map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Ports       []string          `yaml:"ports"`
	Environment map[string]string `yaml:"environment"`
	Volumes     []string          `yaml:"volumes"`
	Healthcheck struct {
		Test        []string `yaml:"test"`
		Interval    string   `yaml:"interval"`
		Timeout     string   `yaml:"timeout"`
		Retries     int      `yaml:"retries"`
		StartPeriod string   `yaml:"start_period"`
	} `yaml:"healthcheck"`
	ReadOnly    bool     `yaml:"read_only"`
	Tmpfs       []string `yaml:"tmpfs"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	ShmSize     string   `yaml:"shm_size"`
	StopGrace   string   `yaml:"stop_grace_period"`
}

// composeFaults returns what is wrong with a Compose file; exists tells whether
// a path of the repository is there.
func composeFaults(text string, exists func(string) bool) []string {
	decoder, err := yaml.NewLoader(bytes.NewReader([]byte(text)), yaml.WithKnownFields())
	if err != nil {
		return []string{err.Error()}
	}
	var c composeFile
	if err := decoder.Load(&c); err != nil {
		return []string{err.Error()}
	}
	faults := unknownSettings(text)
	for _, name := range []string{"vobo", "postgres", "mailpit"} {
		if _, there := c.Services[name]; !there {
			faults = append(faults, "the service "+name+" is missing")
		}
	}
	for name, service := range c.Services {
		for _, fault := range serviceFaults(c, service, exists) {
			faults = append(faults, name+": "+fault)
		}
	}
	return faults
}

func serviceFaults(c composeFile, service composeService, exists func(string) bool) []string {
	var faults []string
	if len(service.Healthcheck.Test) < 2 || service.Healthcheck.Test[0] != "CMD" {
		faults = append(faults, "no health check that needs no shell")
	}
	if _, version, _ := strings.Cut(service.Image, ":"); version == "" || version == "latest" {
		faults = append(faults, "the image "+service.Image+" names no version")
	}
	for needed, how := range service.DependsOn {
		if _, there := c.Services[needed]; !there || how.Condition != "service_healthy" {
			faults = append(faults, "does not wait for a healthy "+needed)
		}
	}
	for _, port := range service.Ports {
		if !strings.HasPrefix(port, "127.0.0.1:") {
			faults = append(faults, "the port "+port+" is open to the network")
		}
	}
	for _, volume := range service.Volumes {
		source, _, _ := strings.Cut(volume, ":")
		_, named := c.Volumes[source]
		if !named && !(strings.HasPrefix(source, "./") && exists(source)) {
			faults = append(faults, "the volume "+source+" is neither declared nor a file of the repository")
		}
	}
	return faults
}

func repositoryHas(t *testing.T) func(string) bool {
	base := root(t)
	return func(name string) bool { _, err := os.Stat(filepath.Join(base, name)); return err == nil }
}

func composeStartsEverything(t *testing.T) {
	t.Parallel()
	for _, fault := range composeFaults(readFile(t, "docker-compose.yml"), repositoryHas(t)) {
		t.Error(fault)
	}
}

func theComposeCheckFindsFaults(t *testing.T) {
	t.Parallel()
	good := readFile(t, "docker-compose.yml")
	before := len(composeFaults(good, func(string) bool { return true }))
	for name, bad := range map[string]string{
		"setting":    strings.Replace(good, "VOBO_SMTP_URL", "VOBO_SMTP", 1),
		"key":        strings.Replace(good, "restart:", "restrat:", 1),
		"service":    strings.Replace(good, "  mailpit:\n", "  mail:\n", 1),
		"port":       strings.Replace(good, `"127.0.0.1:8080:8080"`, `"8080:8080"`, 1),
		"volume":     strings.Replace(good, "- keys:/data", "- key:/data", 1),
		"health":     strings.Replace(good, `["CMD", "pg_isready"`, `["CMD-SHELL", "pg_isready"`, 1),
		"version":    strings.Replace(good, "postgres:17", "postgres", 1),
		"condition":  strings.Replace(good, "service_healthy", "service_started", 1),
		"not a list": strings.Replace(good, "ports:\n", "ports: 8080\n", 1),
	} {
		if bad == good {
			t.Errorf("%s: the case changes nothing", name)
		}
		if after := len(composeFaults(bad, func(string) bool { return true })); after <= before {
			t.Errorf("%s is let in", name)
		}
	}
	if len(composeFaults(good, func(string) bool { return false })) == 0 {
		t.Error("a missing file is let in")
	}
}

func theBuildContextHasTheSources(t *testing.T) {
	t.Parallel()
	var kept []string
	lines := strings.Split(readFile(t, ".dockerignore"), "\n")
	if lines[0] != "*" {
		t.Fatal(".dockerignore must begin with * and name what the build needs: keys and databases lie about in working folders")
	}
	for _, line := range lines {
		if name, included := strings.CutPrefix(line, "!"); included {
			kept = append(kept, name)
		}
	}
	for _, p := range listPackages(t) {
		inside, err := filepath.Rel(root(t), p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		inside = filepath.ToSlash(inside)
		if strings.HasPrefix(inside, "docs/") { // examples for readers
			continue
		}
		if !slices.ContainsFunc(kept, func(name string) bool { return inside == name || strings.HasPrefix(inside, name+"/") }) {
			t.Errorf("the image's build does not get %s: add it to .dockerignore", p.ImportPath)
		}
	}
	for _, needed := range []string{"go.mod", "go.sum", "LICENSE", "NOTICE"} {
		if !slices.Contains(kept, needed) {
			t.Errorf("the image's build does not get %s", needed)
		}
	}
}
