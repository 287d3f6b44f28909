-- May this call be sent, and when? Answers {granted 0/1, wait in ms, reason, concurrency left}.
-- ARGV: id, estimate, lease ms, longest wait ms, requests a minute, tokens a minute, concurrency (0: no limit)
local id, estimate, lease, max_wait = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local request_limit, cap = tonumber(ARGV[5]), tonumber(ARGV[7])
local token_limit = tonumber(ARGV[6]) * 0.98 -- what calls in flight will use is known by estimate only

-- A caller without a limit does not wait for one, but is charged where the lane has one from others.
if request_limit > 0 then lane.request_limit = request_limit end
if token_limit > 0 then lane.token_limit = token_limit end
if cap > 0 then lane.concurrency = math.min(lane.concurrency, cap) end
end_leases()
refill()
redis.call('ZREM', WAITING, id)
redis.call('ZREMRANGEBYSCORE', WAITING, '-inf', now - 2000) -- they did not come back

local expected = ratio() * estimate
-- The time in which the limits pay for this call alone. It does not count against the longest wait: a call
-- as large as that could never be sent.
local own = 0
if request_limit > 0 then own = math.max(own, 1 / rate(request_limit)) end
if token_limit > 0 then own = math.max(own, expected / rate(token_limit)) end
local hold = lane.hold > 0 and lane.hold or 1000
local cool_left = math.max(0, lane.cool - now)

local function answer(granted, wait, reason)
  save()
  return {granted, math.ceil(wait), reason, math.max(0, free())}
end

local function grant(slot, reason)
  redis.call('ZADD', FLIGHT, math.max(slot, now) + lease, id)
  return answer(1, math.max(0, slot - now), slot > now and reason or 'ok')
end

-- Who is refused comes back one by one instead of in a herd, at half the pace at which the lane serves: most of
-- what is freed is taken by those who waited in the process that freed it.
local function refuse(wait, reason)
  local back = wait + 2 * redis.call('ZCARD', WAITING) * math.max(own, hold / lane.concurrency)
  redis.call('ZADD', WAITING, now + back, id)
  return answer(0, back, reason)
end

local held = find(id)
if held then -- asked again: what is left of its wait, charged once
  local slot = math.max(held.slot, cool_left > 0 and lane.cool or 0)
  if cool_left == 0 or slot - now - own <= max_wait then
    return grant(slot, cool_left > 0 and 'cool_down' or held.reason)
  end
  refund(held)
  return refuse(slot - now, 'cool_down')
end

if free() < 1 and cool_left <= max_wait then
  return refuse(cool_left + math.max(own, hold / lane.concurrency), 'concurrency')
end

-- The slot: when everything before this call and the call itself are paid for.
local slot, reason = now, 'ok'
local function not_before(time, why)
  if time > slot then slot, reason = time, why end
end
if request_limit > 0 then not_before(lane.at + (1 - lane.requests) / rate(request_limit), 'requests') end
if token_limit > 0 then not_before(lane.at + (expected - token_level()) / rate(token_limit), 'tokens') end
-- Never before a slot given earlier: a call that waits for one bucket must not come on top of those for which the
-- other bucket fills in the meantime.
if own > 0 then not_before(lane.last + lane.lag, token_limit > 0 and 'tokens' or 'requests') end
local queue = slot - now - cool_left
not_before(lane.cool, 'cool_down')
not_before(lane.pace, 'cool_down')
if cool_left > 0 then reason = 'cool_down' end

if slot - now - own > max_wait then
  -- Back when half of the queue is served: early enough that it never runs dry.
  return refuse(cool_left + math.max(0, queue - max_wait / 2), reason)
end
-- Calls leave a cool-down in single file, so that a new 429 stops nearly all of them. They close up to half the
-- distance of normal service; the file ends when nobody stands in it any more.
if lane.gap > 0 then
  local closest = math.min(50, hold / lane.concurrency / 2)
  local over = lane.pace <= now and lane.gap <= closest
  lane.pace, lane.gap = slot + lane.gap, over and 0 or math.max(closest, lane.gap * 0.95)
end
-- At its slot, no more than the burst (or the call, if larger) may have gathered in either bucket.
local function fullest(limit, call) return math.max(BURST * limit, call) - rate(limit) * (slot - lane.at) end
lane.requests = math.min(lane.requests, fullest(lane.request_limit, 1))
lane.tokens = math.min(lane.tokens, fullest(lane.token_limit, expected) + ratio() * lane.reserved)
if lane.request_limit > 0 then lane.requests = lane.requests - 1 end
lane.reserved = lane.reserved + estimate
lane.last = math.max(lane.last, slot - lane.lag)
redis.call('HSET', HELD, id, string.format('%.17g %.17g %s', estimate, slot - lane.lag, reason))
return grant(slot, reason)
