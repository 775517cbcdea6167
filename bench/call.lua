-- What wrk sends: one JSON-RPC request after the other, each with an id of its own, in turn from
-- each of the sessions. The file named by BENCH_LOAD returns the texts:
--   heads  head and body up to the id, one for each session
--   tails  what follows the id; of two, the id stands between them once more (a progress token)
--   base   the ids count from here; they are all of one width, so Content-Length is fixed
local load = dofile(os.getenv("BENCH_LOAD"))
local heads, tails, base, sent = load.heads, load.tails, load.base, 0
local sessions, tail, rest = #heads, tails[1], tails[2]

if rest then
  function request()
    sent = sent + 1
    local id = base + sent
    return heads[sent % sessions + 1] .. id .. tail .. id .. rest
  end
else
  function request()
    sent = sent + 1
    return heads[sent % sessions + 1] .. (base + sent) .. tail
  end
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'JSON{"requests":%d,"microseconds":%d,"bytes":%d,"p50_us":%d,"p99_us":%d,' ..
      '"connect":%d,"read":%d,"write":%d,"timeout":%d,"status":%d}\n',
    summary.requests, summary.duration, summary.bytes,
    latency:percentile(50), latency:percentile(99),
    errors.connect, errors.read, errors.write, errors.timeout, errors.status))
end
