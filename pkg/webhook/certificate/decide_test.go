package certificate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certutil "k8s.io/client-go/util/cert"
)

// called names the pairs of a test, so that a difference can be read.
func called(p *Pair, names map[*Pair]string) string {
	if p == nil {
		return "none"
	}
	return names[p]
}

func TestDecide(t *testing.T) {
	first := made(t, nil, epoch, name)
	later := epoch.Add(61 * 24 * time.Hour) // two thirds of 90 days have passed
	second := made(t, first, later, name)
	names := map[*Pair]string{first.Current: "first", second.Current: "second", second.Previous: "first"}
	foreign := made(t, nil, epoch, name)
	other := made(t, nil, epoch, "another.ns.svc")
	broken := parseStored(map[string][]byte{"tls.crt": []byte("nonsense"), "ca.crt": first.Authorities})
	swapped := *first
	swapped.Authorities = foreign.Authorities
	third := made(t, nil, later, name)
	fourth := made(t, third, later, name)
	full := made(t, nil, epoch, name)
	for range maxAuthorities {
		full = made(t, full, epoch, name)
	}
	strange, _, err := certutil.GenerateSelfSignedCertKey("strange", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	day := 24 * time.Hour

	type want struct {
		Issue            string // part of it
		Publish, Settled bool
		Serve            string
	}
	cases := map[string]struct {
		situation Situation
		want      want
	}{
		"without a Secret one is made": {
			Situation{Now: epoch}, want{Issue: "none yet", Serve: "none"}},
		"a Secret that was deleted is made again while the certificate is served on": {
			Situation{Now: epoch, Serving: first.Current, Bundles: [][]byte{first.Authorities}},
			want{Issue: "none yet", Serve: "first"}},
		"a Secret without a certificate gets one": {
			Situation{Now: epoch, Stored: parseStored(nil)}, want{Issue: "cannot be read", Serve: "none"}},
		"a certificate that cannot be read is replaced": {
			Situation{Now: epoch, Stored: broken}, want{Issue: "cannot be read", Serve: "none"}},
		"a certificate that its authorities have not signed is replaced": {
			Situation{Now: epoch, Stored: &swapped}, want{Issue: "not signed", Serve: "first"}},
		"a certificate for other names is replaced": {
			Situation{Now: epoch, Stored: other, Serving: first.Current}, want{Issue: "not for " + name, Serve: "first"}},
		"a certificate that has expired is replaced and not served": {
			Situation{Now: epoch.Add(lifetime), Stored: first, Serving: first.Current, Bundles: [][]byte{first.Authorities}},
			want{Issue: "valid from", Serve: "none"}},
		"a certificate of the future is replaced and not served": {
			Situation{Now: epoch.Add(-2 * time.Hour), Stored: first}, want{Issue: "valid from", Serve: "none"}},
		"a new certificate of a new Secret is served and made known": {
			Situation{Now: epoch, Stored: first, Bundles: [][]byte{nil, nil}},
			want{Publish: true, Serve: "first"}},
		"one configuration that does not know it is enough to make it known": {
			Situation{Now: epoch, Stored: first, Bundles: [][]byte{first.Authorities, nil}},
			want{Publish: true, Serve: "first"}},
		"what is trusted, but has only been seen to be for a moment, is served and not settled": {
			Situation{Now: epoch, Stored: first, Bundles: [][]byte{first.Authorities}, Trusted: trusting(epoch, first.Current)},
			want{Serve: "first"}},
		"what has been trusted for long is served, and nothing is left to do": {
			Situation{Now: epoch.Add(settle), Stored: first, Bundles: [][]byte{first.Authorities}, Trusted: trusting(epoch, first.Current), Serving: first.Current},
			want{Serve: "first", Settled: true}},
		"a day before two thirds of its life nothing happens": {
			Situation{Now: epoch.Add(59 * day), Stored: first, Bundles: [][]byte{first.Authorities}, Trusted: trusting(epoch, first.Current), Serving: first.Current},
			want{Serve: "first", Settled: true}},
		"after two thirds of its life a new one is made and the old served": {
			Situation{Now: later, Stored: first, Bundles: [][]byte{first.Authorities}, Trusted: trusting(epoch, first.Current), Serving: first.Current},
			want{Issue: "two thirds", Serve: "first"}},
		"a new certificate is made known before it is served": {
			Situation{Now: later, Stored: second, Bundles: [][]byte{first.Authorities}, Trusted: trusting(epoch, first.Current), Serving: first.Current},
			want{Publish: true, Serve: "first"}},
		"a new certificate that was made known just now is not served yet": {
			Situation{Now: later.Add(settle - 1), Stored: second, Bundles: [][]byte{second.Authorities},
				Trusted: Trust{first.Current.fingerprint(): epoch, second.Current.fingerprint(): later}, Serving: first.Current},
			want{Serve: "first"}},
		"a new certificate that was made known a while ago is served": {
			Situation{Now: later.Add(settle), Stored: second, Bundles: [][]byte{second.Authorities},
				Trusted: Trust{first.Current.fingerprint(): epoch, second.Current.fingerprint(): later}, Serving: first.Current},
			want{Serve: "second", Settled: true}},
		"a replica that starts amid a rotation serves what has been trusted for longer": {
			Situation{Now: later, Stored: second, Bundles: [][]byte{second.Authorities}, Trusted: trusting(later, first.Current, second.Current)},
			want{Serve: "first"}},
		"a replica that starts before a rotation is known serves the previous certificate": {
			Situation{Now: later, Stored: second, Bundles: [][]byte{first.Authorities}, Trusted: trusting(later, first.Current)},
			want{Publish: true, Serve: "first"}},
		"a replica that starts long after a rotation does not serve what has expired": {
			Situation{Now: epoch.Add(lifetime), Stored: second, Bundles: [][]byte{second.Authorities}, Trusted: trusting(epoch.Add(lifetime), second.Current)},
			want{Serve: "second"}},
		"what is served and no longer trusted gives way at once to what is": {
			Situation{Now: later, Stored: foreign, Bundles: [][]byte{foreign.Authorities}, Trusted: trusting(later, foreign.Current), Serving: first.Current},
			want{Issue: "two thirds", Serve: "foreign"}},
		"what the configurations trust and an older Secret that was put back does not have is not dropped": {
			Situation{Now: later, Stored: third, Bundles: [][]byte{fourth.Authorities, third.Authorities}, Trusted: trusting(later, fourth.Current), Serving: fourth.Current},
			want{Issue: "an older Secret", Serve: "fourth"}},
		"an authority that has expired may be dropped": {
			Situation{Now: epoch.Add(lifetime), Stored: third, Bundles: [][]byte{first.Authorities}, Trusted: Trust{}, Serving: third.Current},
			want{Publish: true, Serve: "third"}},
		"an authority of somebody else may be dropped": {
			Situation{Now: later, Stored: third, Bundles: [][]byte{strange}, Serving: third.Current},
			want{Publish: true, Serve: "third"}},
		"a Secret that is full is made known whatever is dropped": {
			Situation{Now: epoch, Stored: full, Bundles: [][]byte{first.Authorities}, Serving: full.Current},
			want{Publish: true, Serve: "full"}},
		"without configurations the certificate is served, for whoever asks": {
			Situation{Now: epoch, Stored: first}, want{Serve: "first"}},
	}
	names[third.Current], names[fourth.Current], names[full.Current] = "third", "fourth", "full"
	names[foreign.Current], names[other.Current] = "foreign", "other"
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.situation.Names, tc.situation.Settle, tc.situation.Lifetime = []string{"hook.ns.svc"}, settle, lifetime
			plan := Decide(tc.situation)
			got := want{plan.Issue, plan.Publish, plan.Settled, called(plan.Serve, names)}
			if tc.want.Issue != "" && strings.Contains(got.Issue, tc.want.Issue) {
				got.Issue = tc.want.Issue
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTrustBeginsWhenAllWebhooksTrustAndEndsWhenOneDoesNot(t *testing.T) {
	first := made(t, nil, epoch, name)
	second := made(t, first, epoch, name)
	pairs := []*Pair{second.Current, first.Current, nil}
	at := func(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

	var trust Trust
	trust = trust.Observe(at(0), nil, pairs...)
	if len(trust) != 0 {
		t.Errorf("without webhooks somebody is trusted: %v", trust)
	}
	trust = trust.Observe(at(1), [][]byte{second.Authorities, first.Authorities}, pairs...)
	if diff := cmp.Diff(trusting(at(1), first.Current), trust); diff != "" {
		t.Errorf("one webhook does not know the second (-want +got):\n%s", diff)
	}
	trust = trust.Observe(at(2), [][]byte{second.Authorities, second.Authorities}, pairs...)
	if diff := cmp.Diff(Trust{first.Current.fingerprint(): at(1), second.Current.fingerprint(): at(2)}, trust); diff != "" {
		t.Errorf("both know both (-want +got):\n%s", diff)
	}
	trust = trust.Observe(at(3), [][]byte{second.Authorities, nil}, pairs...)
	if len(trust) != 0 {
		t.Errorf("a webhook trusts nobody: %v", trust)
	}
}

func TestSucceed(t *testing.T) {
	first := made(t, nil, epoch, name)
	if first.Previous != nil || len(parseAuthorities(first.Authorities)) != 1 {
		t.Error("the first has predecessors")
	}
	t.Run("the one before and its authority are kept", func(t *testing.T) {
		second := made(t, first, epoch.Add(time.Hour), name)
		if second.Previous == nil || second.Previous.fingerprint() != first.Current.fingerprint() {
			t.Error("the previous certificate is not the first")
		}
		for name, pair := range map[string]*Pair{"current": second.Current, "previous": second.Previous} {
			if !pair.trustedBy(second.Authorities, epoch.Add(time.Hour)) {
				t.Errorf("the %s certificate is not trusted", name)
			}
		}
	})
	t.Run("what has expired is dropped", func(t *testing.T) {
		second := made(t, first, epoch.Add(lifetime), name)
		if second.Previous != nil || len(parseAuthorities(second.Authorities)) != 1 {
			t.Errorf("previous %v, %d authorities", second.Previous, len(parseAuthorities(second.Authorities)))
		}
	})
	t.Run("what is served is kept rather than what was stored", func(t *testing.T) {
		second := made(t, first, epoch, name)
		next, err := succeed(second, second.Current, first.Current, nil, epoch, lifetime, []string{name})
		if err != nil || next.Previous.fingerprint() != first.Current.fingerprint() {
			t.Errorf("%v; the previous certificate is not the one that is served", err)
		}
	})
	t.Run("names of another replica stay when names are missing", func(t *testing.T) {
		got := made(t, first, epoch, "127.0.0.1").Current.Names()
		if diff := cmp.Diff([]string{name, "127.0.0.1"}, got); diff != "" {
			t.Errorf("names (-want +got):\n%s", diff)
		}
	})
	t.Run("names of another replica go with the next rotation", func(t *testing.T) {
		both := made(t, first, epoch, "127.0.0.1")
		got := made(t, both, epoch, "127.0.0.1").Current.Names()
		if diff := cmp.Diff([]string{"127.0.0.1"}, got); diff != "" {
			t.Errorf("names (-want +got):\n%s", diff)
		}
	})
	t.Run("authorities do not pile up", func(t *testing.T) {
		stored := first
		for range 2 * maxAuthorities {
			stored = made(t, stored, epoch, name)
		}
		if n := len(parseAuthorities(stored.Authorities)); n != maxAuthorities || !stored.Current.trustedBy(stored.Authorities, epoch) {
			t.Errorf("%d authorities, want %d with the newest among them", n, maxAuthorities)
		}
	})
}

func TestStoredContentLeavesOtherKeysAlone(t *testing.T) {
	first := made(t, nil, epoch, name)
	data := first.into(map[string][]byte{"note": []byte("kept"), "previous-tls.crt": []byte("old"), "previous-tls.key": []byte("old")})
	if string(data["note"]) != "kept" || data["previous-tls.crt"] != nil || data["previous-tls.key"] != nil {
		t.Errorf("keys: %v", data)
	}
}

// Two replicas look in turn, each by a clock of its own, and each replaces what it thinks
// is not valid.
func TestReplicasWithDifferentClocksAgreeOnACertificate(t *testing.T) {
	for _, skew := range []time.Duration{time.Minute, 2 * time.Hour, lifetime / 3, lifetime - time.Hour, lifetime + lifetime/2} {
		for _, first := range []int{0, 1} {
			clocks := []time.Duration{0, skew} // of the replicas
			var stored *Stored
			made := 0
			for round := range 40 {
				now := epoch.Add(clocks[(first+round)%2])
				if stored.describe(now, []string{name}, lifetime) == "" {
					continue
				}
				made++
				var before *Pair
				if stored != nil {
					before = stored.Current
				}
				next, err := succeed(nil, before, nil, nil, now, lifetime, []string{name})
				if err != nil {
					t.Fatal(err)
				}
				stored = parseStored(next.into(nil))
			}
			if made > 3 {
				t.Errorf("clocks %v apart, the one ahead looks as number %d: %d certificates were made", skew, 2-first, made)
			}
			for _, ahead := range clocks {
				if !stored.Current.usable(epoch.Add(ahead)) {
					t.Errorf("clocks %v apart: by the clock of %v the certificate is not valid", skew, ahead)
				}
			}
		}
	}
}
