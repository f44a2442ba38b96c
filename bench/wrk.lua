-- The load of `cargo xtask bench protocol`: one request over and over, each time with an id of its own.
--
-- wrk … URL -- FILE   where FILE holds header lines, an empty line, and a body with @ID@ where the id belongs

local before, after
-- All ids have as many digits, so that the length of the body never changes.
local id = 1000000000

function init(args)
  local file = assert(io.open(args[1], "rb"))
  local text = file:read("*a")
  file:close()
  local head, body = text:match("^(.-)\n\n(.*)$")
  for name, value in head:gmatch("([^:\n]+): ([^\n]*)") do
    wrk.headers[name] = value
  end
  local from, to = body:find("@ID@", 1, true)
  local whole = wrk.format("POST", nil, nil, body:sub(1, from - 1) .. id .. body:sub(to + 1))
  from, to = whole:find(tostring(id), 1, true)
  before, after = whole:sub(1, from - 1), whole:sub(to + 1)
end

function request()
  id = id + 1
  return before .. id .. after
end

function done(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format("\nDONE %d %d %d %d %d %d\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), failed, summary.bytes))
end
