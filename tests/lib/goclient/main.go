// SPDX-License-Identifier: BSD-3-Clause

// A client of a step's socket that leans on nothing of stepd: Debian's
// golang-github-varlink-go-dev speaks Varlink, and this prints what it hears, a line each.
//
//	goclient SOCKET info | description | idl | describe | pids [RANKS] | find PID |
//	         signal SIGNAL [RANKS] | events FROM | wait | METHOD
//
// An error is printed with its parameters; the exit status is 1 then.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/varlink/go/varlink"
	"github.com/varlink/go/varlink/idl"
)

const stepInterface = "io.stepd.Step"

type process struct {
	Pid        int64  `json:"pid"`
	Rank       *int64 `json:"rank"`
	StartTicks *int64 `json:"start_ticks"`
}

type event struct {
	Sequence int64   `json:"sequence"`
	Kind     string  `json:"kind"`
	State    *string `json:"state"`
	Rank     *int64  `json:"rank"`
	ExitCode *int64  `json:"exit_code"`
}

type client struct {
	ctx  context.Context
	conn *varlink.Connection
}

// Calls a method of the step's interface, and hands each answer to show.
func (c *client) call(method string, in map[string]interface{}, flags uint64, out interface{}, show func()) error {
	receive, err := c.conn.Send(c.ctx, stepInterface+"."+method, in, flags)
	for err == nil {
		var more uint64
		more, err = receive(c.ctx, out)
		if err == nil {
			show()
		}
		if more&varlink.Continues == 0 {
			break
		}
	}
	return err
}

func optional(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

func (c *client) info() error {
	var vendor, product, version, url string
	var interfaces []string
	err := c.conn.GetInfo(c.ctx, &vendor, &product, &version, &url, &interfaces)
	if err == nil {
		fmt.Printf("%s|%s|%s|%s\n", product, version, url, strings.Join(interfaces, " "))
	}
	return err
}

func (c *client) description() error {
	text, err := c.conn.GetInterfaceDescription(c.ctx, stepInterface)
	fmt.Print(text)
	return err
}

// This library's parser of descriptions takes no capital letters in the name of an interface,
// which the language has: all else is parsed as it is.
func (c *client) idl() error {
	text, err := c.conn.GetInterfaceDescription(c.ctx, stepInterface)
	if err != nil {
		return err
	}
	text = strings.Replace(text, "interface "+stepInterface, "interface io.stepd.step", 1)
	parsed, err := idl.New(text)
	if err != nil {
		return err
	}
	for _, m := range parsed.Methods {
		fmt.Printf("method %s %d\n", m.Name, len(m.In.Fields))
	}
	for _, e := range parsed.Errors {
		fmt.Printf("error %s\n", e.Name)
	}
	return nil
}

func (c *client) describe() error {
	var out struct {
		Step    string `json:"step"`
		Node    string `json:"node"`
		State   string `json:"state"`
		Tasks   int64  `json:"local_tasks"`
		Running int64  `json:"running_tasks"`
		Agent   int64  `json:"agent_pid"`
	}
	return c.call("Describe", nil, 0, &out, func() {
		fmt.Printf("%s/%s %s %d %d %d\n", out.Node, out.Step, out.State, out.Tasks, out.Running, out.Agent)
	})
}

func (c *client) pids(args []string) error {
	var out struct {
		Pids []process `json:"pids"`
	}
	in := map[string]interface{}{"start_ticks": true}
	if len(args) > 0 {
		in["ranks"] = args[0]
	}
	return c.call("ListPids", in, varlink.More, &out, func() {
		for _, p := range out.Pids {
			fmt.Println(p.Pid, optional(p.Rank), optional(p.StartTicks))
		}
	})
}

func (c *client) find(args []string) error {
	var out struct {
		Found struct {
			process
			Step string `json:"step"`
		} `json:"found"`
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	return c.call("FindPid", map[string]interface{}{"pid": pid}, 0, &out, func() {
		fmt.Println(out.Found.Pid, out.Found.Step, optional(out.Found.Rank))
	})
}

func (c *client) signal(args []string) error {
	var out struct{}
	in := map[string]interface{}{"signal": args[0]}
	if len(args) > 1 {
		in["ranks"] = args[1]
	}
	return c.call("Signal", in, 0, &out, func() {})
}

func (c *client) events(args []string) error {
	from, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	out := new(struct {
		Event *event `json:"event"`
	})
	return c.call("Events", map[string]interface{}{"from": from}, varlink.More, out, func() {
		if e := out.Event; e != nil {
			state := "-"
			if e.State != nil {
				state = *e.State
			}
			fmt.Println(e.Sequence, e.Kind, state, optional(e.Rank), optional(e.ExitCode))
		}
		out.Event = nil
	})
}

func (c *client) wait() error {
	var out struct {
		State  string `json:"state"`
		Result struct {
			ExitCode int64 `json:"exit_code"`
		} `json:"result"`
	}
	return c.call("Wait", nil, 0, &out, func() {
		fmt.Println(out.State, out.Result.ExitCode)
	})
}

// With no parameters, for what comes of it.
func (c *client) other(method string) error {
	var out map[string]interface{}
	return c.call(method, nil, 0, &out, func() { fmt.Println(out) })
}

func (c *client) run(words []string) error {
	switch words[0] {
	case "info":
		return c.info()
	case "description":
		return c.description()
	case "idl":
		return c.idl()
	case "describe":
		return c.describe()
	case "pids":
		return c.pids(words[1:])
	case "find":
		return c.find(words[1:])
	case "signal":
		return c.signal(words[1:])
	case "events":
		return c.events(words[1:])
	case "wait":
		return c.wait()
	}
	return c.other(words[0])
}

func explain(err error) string {
	if e, ok := err.(*varlink.Error); ok {
		if raw, ok := e.Parameters.(*json.RawMessage); ok && raw != nil {
			return e.Name + " " + string(*raw)
		}
	}
	if text, e := json.Marshal(err); e == nil && string(text) != "{}" {
		return err.Error() + " " + string(text)
	}
	return err.Error()
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: goclient SOCKET WORD...")
		os.Exit(2)
	}
	conn, err := varlink.NewConnection(context.Background(), "unix:"+os.Args[1])
	if err == nil {
		err = (&client{context.Background(), conn}).run(os.Args[2:])
	}
	if err != nil {
		fmt.Println(explain(err))
		os.Exit(1)
	}
}
