package app

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// parseFlags sets all flags that it can and returns what is wrong with the others: a
// flag set by itself stops at the first mistake, and who has made three would have to
// start the program three times to learn of them.
func parseFlags(flags *pflag.FlagSet, args []string) []error {
	var errs []error
	for len(args) > 0 {
		var one []string
		one, args = cutFlag(flags, args)
		switch {
		case len(one) == 0:
			errs = append(errs, fmt.Errorf("unexpected argument %q: there are only flags, and the subcommand render, which comes first", args[0]))
			args = args[1:]
		case one[0] == "--":
			for _, arg := range args {
				errs = append(errs, fmt.Errorf("unexpected argument %q: there are only flags, and the subcommand render, which comes first", arg))
			}
			args = nil
		default:
			if err := flags.Parse(one); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errs
}

// cutFlag cuts the first flag, with its value, off the arguments. It cuts nothing if they
// do not begin with a flag. What follows an unknown flag is taken for its value, unless
// it looks like a flag.
func cutFlag(flags *pflag.FlagSet, args []string) (one, rest []string) {
	first := args[0]
	name, long := strings.CutPrefix(first, "--")
	switch {
	case first == "--":
		return args[:1], args[1:]
	case !strings.HasPrefix(first, "-") || first == "-":
		return nil, args
	case strings.Contains(first, "="):
		return args[:1], args[1:]
	}
	var known *pflag.Flag
	if long {
		known = flags.Lookup(name)
	} else if len(first) == 2 {
		known = flags.ShorthandLookup(first[1:])
	} else {
		return args[:1], args[1:] // -v4, or several at once
	}
	more := len(args) > 1 && (known != nil || !strings.HasPrefix(args[1], "-"))
	if !more || (known != nil && known.NoOptDefVal != "") {
		return args[:1], args[1:]
	}
	if known == nil {
		return args[:1], args[2:]
	}
	return args[:2], args[2:]
}
