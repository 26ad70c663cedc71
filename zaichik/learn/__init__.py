"""A tester for brokers in any language: the stages of `zaichik learn`, over TCP alone.

It shares no code with zaichik's broker and client. What it sends, and how it checks what comes
back, was implemented a second time from `protocol/README.md`, so that one mistake cannot hide
another.

Reading order: `wire` (frames, implemented a second time), `causes` (what wrong bytes usually mean),
`trace` and `failure` (what is shown), `line` (a raw connection that records everything),
`connection` (requests, replies and events on it), `trial` (one run of one check), `stage` and
`stages/` (what is checked), `runner` (seeds, retries, results). Then the learner's side: `config`
(learn.toml), `server` (starting and stopping the learner's program), `progress` (how far the
learner has come), `folder` (what `init` writes). `history` checks what happened in a `workload`,
and `burst` what a killed broker still has.
"""
