package lifetime

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"
)

// TestEveryCombinationAgreesWithTheCalendar compares verdicts with sums of whole numbers
// of any size, which cannot overflow.
func TestEveryCombinationAgreesWithTheCalendar(t *testing.T) {
	const year = 365 * 24 * 3600
	limits := []int64{0, 1, 2, 30, 3599, 86399, 86400, 86401, year, 100 * year, math.MaxInt32, 9223372036, 9223372037, 18446744073, 18446744074, math.MaxInt64 - 1, math.MaxInt64}
	elapsed := []time.Duration{
		0, 1, -1, time.Second, -time.Second, 999999999, 30 * time.Second, 30*time.Second - 1, 30*time.Second + 1,
		24 * time.Hour, 24*time.Hour - 1, 24*time.Hour + 1, -24 * time.Hour, 100 * year * time.Second, -100 * year * time.Second,
		math.MaxInt32 * time.Second, math.MaxInt32*time.Second - 1,
	}
	n := 0
	for _, seconds := range limits {
		for _, since := range elapsed {
			now := start.Add(since)
			check := func(name string, got Verdict) {
				n++
				if wrong := disagrees(got, seconds, since); wrong != "" {
					t.Errorf("%s of %d s, %v after its start: %+v, %s", name, seconds, since, got, wrong)
				}
			}
			check("deadline", Deadline(start, &seconds, now))
			if seconds <= math.MaxInt32 {
				ttl := int32(seconds)
				check("TTL", TTL(start, &ttl, now))
			}
		}
	}
	if n < 400 {
		t.Errorf("only %d combinations", n)
	}
}

// disagrees says how a verdict differs from the calendar: what is left until the moment,
// in nanoseconds, is the limit less what has elapsed.
func disagrees(got Verdict, seconds int64, elapsed time.Duration) string {
	left := new(big.Int).Mul(big.NewInt(seconds), big.NewInt(int64(time.Second)))
	left.Sub(left, big.NewInt(int64(elapsed)))
	if left.Sign() <= 0 {
		if got.Kind != Expired || got.Wait != 0 || big.NewInt(-int64(got.Late)).Cmp(left) != 0 {
			return fmt.Sprintf("want it to be %v ns late", left.Neg(left))
		}
		return ""
	}
	want := MaxWait
	if left.IsInt64() && left.Int64() < int64(MaxWait) {
		want = time.Duration(left.Int64())
	}
	if got.Kind != Wait || got.Late != 0 || got.Wait != want {
		return fmt.Sprintf("want it to wait %v", want)
	}
	return ""
}
