"""A tester for anybody's broker, in any language: the stages of `zaichik learn`, over TCP and nothing else.

It shares no code with zaichik's broker and client. What it sends and how it judges what comes back was written from
`protocol/README.md` a second time, so that one mistake cannot hide another.

Reading order: `wire` (frames, told a second time), `causes` (what wrong bytes usually mean), `trace` and `failure`
(what is shown), `line` (a raw connection that writes everything down), `connection` (requests, replies and events on
it), `trial` (one run of one check), `stage` and `stages/` (what is checked), `runner` (seeds, retries, results). Then
the learner's side: `config` (learn.toml), `server` (starting and ending the learner's program), `progress` (how far
somebody is), `folder` (what `init` writes). `history` judges what `workload` did, and `burst` what a broker that was
killed still has.
"""
