package deliver

import (
	"net/netip"
	"strconv"
	"strings"

	"vobo/internal/fault"
)

// forbiddenV4 lists the IPv4 ranges that are not the public internet
// (IANA IPv4 Special-Purpose Address Registry, RFC 6890, and multicast).
var forbiddenV4 = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
	"172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
)

// Of IPv6 only global unicast is public, and of that not what carries IPv4 addresses
// or is set apart: Teredo, ORCHID, benchmarking (2001::/23), documentation, 6to4.
// NAT64, v4-mapped, ULA, link-local and multicast lie outside 2000::/3.
var (
	globalV6    = netip.MustParsePrefix("2000::/3")
	forbiddenV6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
)

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		out[i] = netip.MustParsePrefix(t)
	}
	return out
}

// IsPublic tells whether a is an address of the public internet. Everything else —
// loopback, private, link-local, shared, documentation, multicast, and IPv6 forms that
// carry an IPv4 address — is not.
func IsPublic(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	if a.Is4() {
		return !within(a, forbiddenV4)
	}
	return globalV6.Contains(a) && !within(a, forbiddenV6)
}

func within(a netip.Addr, list []netip.Prefix) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// allowList is VOBO_WEBHOOK_ALLOW: what webhooks may reach although it is private, on
// an unusual port, or plain http.
type allowList struct {
	hosts map[string]bool // lower-case "host" or "host:port"
	nets  []netip.Prefix
}

func parseAllow(entries []string) (allowList, error) {
	list := allowList{hosts: map[string]bool{}}
	for _, raw := range entries {
		entry := strings.ToLower(strings.TrimSpace(raw))
		switch {
		case entry == "":
			continue
		case strings.Contains(entry, "/"):
			p, err := netip.ParsePrefix(entry)
			if err != nil || p.Addr().Is4In6() {
				return list, badAllow(raw)
			}
			list.nets = append(list.nets, p.Masked())
		default:
			if a, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil && a.Zone() == "" {
				list.nets = append(list.nets, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
				continue
			}
			host, port, hasPort := strings.Cut(entry, ":")
			if !validHostname(host) && !isIPv4(host) || hasPort && !validPort(port) {
				return list, badAllow(raw)
			}
			list.hosts[entry] = true
		}
	}
	return list, nil
}

func badAllow(entry string) error {
	return fault.New(fault.InvalidInput, "VOBO_WEBHOOK_ALLOW: %q is no host, host:port, address or CIDR.", entry)
}

// host tells whether a host is allowed by its name, on that port.
func (l allowList) host(host, port string) bool {
	host = strings.ToLower(host)
	return l.hosts[host] || l.hosts[host+":"+port]
}

func (l allowList) address(a netip.Addr) bool { return within(a.Unmap().WithZone(""), l.nets) }

func isIPv4(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is4()
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0 && strconv.FormatUint(n, 10) == s
}

// validHostname accepts names of letters, digits and hyphens (RFC 1123; underscores
// too, which inner networks use) that no resolver could read as a number.
func validHostname(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	labels := strings.Split(s, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return !looksNumeric(labels[len(labels)-1])
}

// looksNumeric is the "ends in a number" test of the URL standard (WHATWG URL 3.5):
// such a host would be read as an IPv4 address in decimal, octal or hexadecimal.
func looksNumeric(label string) bool {
	if strings.Trim(label, "0123456789") == "" {
		return true
	}
	rest, ok := strings.CutPrefix(strings.ToLower(label), "0x")
	return ok && strings.Trim(rest, "0123456789abcdef") == ""
}

// servicePorts are ports above 1023 where something that is no web server listens and
// would take harm from, or answer, an HTTP request.
var servicePorts = map[int]bool{
	1433: true, 1521: true, 1883: true, 2049: true, 2181: true, 2375: true, 2376: true, 2379: true, 2380: true,
	3128: true, 3306: true, 3389: true, 4444: true, 5432: true, 5433: true, 5672: true, 5900: true, 5984: true,
	6000: true, 6379: true, 6432: true, 6443: true, 7001: true, 8086: true, 8500: true, 9042: true, 9092: true,
	9200: true, 9300: true, 10250: true, 11211: true, 15672: true, 27017: true, 50070: true, 61616: true,
}

// publicPort tells whether a webhook may go to the port without being allowed by name.
func publicPort(port int) bool {
	return port == 443 || port >= 1024 && !servicePorts[port]
}
