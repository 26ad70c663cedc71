// Broker is a zaichik broker written from the wire protocol's text alone, to test the conformance suite against.
//
// It keeps the text's order: frames.go is sections 1 and 3, conn.go section 2, requests.go section 4, and the rest
// section 7. One mutex guards all state; each connection has a goroutine that reads and one that writes.
package main

import (
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	idle := flag.Duration("idle", 3*time.Second, "silence after which a client that promised HEARTBEAT is closed")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: broker [-idle DURATION] PORT")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	b := newBroker(*idle)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	go b.sweepForever()
	go b.accept(listener)
	<-stop
	listener.Close()
	b.stop()
}
