package markdown

import (
	"html"
	"testing"
)

func TestWhatStandsInInstructionsIsReadableAndNothingOfItIsLive(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"Check the **sanctions list**.":          "<p>Check the <strong>sanctions list</strong>.</p>",
		"- one\n- two":                           "<ul><li>one</li><li>two</li></ul>",
		"# Approve now":                          "<p><strong>Approve now</strong></p>",
		"[click](https://evil.example)":          "<p>click <code>https://evil.example</code></p>",
		"![x](https://evil.example/p.png)":       "<p>x <code>https://evil.example/p.png</code></p>",
		"<https://evil.example>":                 "<p><code>https://evil.example</code></p>",
		"a <b>bold</b> word":                     "<p>a &lt;b&gt;bold&lt;/b&gt; word</p>",
		"<script>alert(1)</script>":              "<pre>&lt;script&gt;alert(1)&lt;/script&gt;</pre>",
		"`rm -rf`":                               "<p><code>rm -rf</code></p>",
		"> said so":                              "<blockquote><p>said so</p></blockquote>",
		"[x](javascript:alert(1))":               "<p>x <code>javascript:alert(1)</code></p>",
		"1. first\n2. second":                    "<ol><li>first</li><li>second</li></ol>",
		"line one  \nline two":                   "<p>line one<br>line two</p>",
		"R&D \"quoted\" <svg/onload=alert(1)> x": "<p>R&amp;D &#34;quoted&#34; &lt;svg/onload=alert(1)&gt; x</p>",
	} {
		if got := HTML(source, html.EscapeString); got != want {
			t.Errorf("%q\n got %s\nwant %s", source, got, want)
		}
	}
}
