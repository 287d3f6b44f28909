-- May these calls be sent, and when? Asked in their order, up to the first one that is refused. Answers {concurrency
-- left, granted 0/1, wait in ms, reason; the last three again for each further call}.
-- ARGV: longest wait ms, requests a minute, tokens a minute, concurrency (0: no limit); of each call id, estimate, lease ms
local max_wait, request_limit, cap = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local token_limit = tonumber(ARGV[3]) * 0.98 -- what calls in flight will use is known by estimate only

-- A caller without a limit does not wait for one, but is charged where the lane has one from others.
if request_limit > 0 then lane.request_limit = request_limit end
if token_limit > 0 then lane.token_limit = token_limit end
if cap > 0 then lane.concurrency = math.min(lane.concurrency, cap) end
end_leases()
refill()
redis.call('ZREMRANGEBYSCORE', WAITING, '-inf', now - 2000) -- they did not come back
local hold = lane.hold > 0 and lane.hold or 1000
local cool_left = math.max(0, lane.cool - now)

local function grant(call, slot, reason)
  redis.call('ZADD', FLIGHT, math.max(slot, now) + call.lease, call.id)
  return 1, math.max(0, slot - now), slot > now and reason or 'ok'
end

-- Who is refused comes back one by one instead of in a herd, at half the pace at which the lane serves: most of
-- what is freed is taken by those who waited in the process that freed it.
local function refuse(call, wait, reason)
  local back = wait + 2 * redis.call('ZCARD', WAITING) * math.max(call.own, hold / lane.concurrency)
  redis.call('ZADD', WAITING, now + back, call.id)
  return 0, back, reason
end

-- Asked again: what is left of its wait, charged once.
local function remind(call, held)
  local slot = math.max(held.slot, cool_left > 0 and lane.cool or 0)
  if cool_left == 0 or slot - now - call.own <= max_wait then
    return grant(call, slot, cool_left > 0 and 'cool_down' or held.reason)
  end
  refund(held)
  return refuse(call, slot - now, 'cool_down')
end

-- The slot: when everything before this call and the call itself are paid for. And how much of the wait is the queue.
local function slot_of(call)
  local slot, reason = now, 'ok'
  local function not_before(time, why)
    if time > slot then slot, reason = time, why end
  end
  if request_limit > 0 then not_before(lane.at + (1 - lane.requests) / rate(request_limit), 'requests') end
  if token_limit > 0 then not_before(lane.at + (call.expected - token_level()) / rate(token_limit), 'tokens') end
  -- Never before a slot given earlier: a call that waits for one bucket must not come on top of those for which the
  -- other bucket fills in the meantime.
  if call.own > 0 then not_before(lane.last + lane.lag, token_limit > 0 and 'tokens' or 'requests') end
  local queue = slot - now - cool_left
  not_before(lane.cool, 'cool_down')
  not_before(lane.pace, 'cool_down')
  return slot, cool_left > 0 and 'cool_down' or reason, queue
end

-- Calls leave a cool-down in single file, so that a new 429 stops nearly all of them. They close up to half the
-- distance of normal service; the file ends when nobody stands in it any more.
local function keep_file(slot)
  if lane.gap <= 0 then return end
  local closest = math.min(50, hold / lane.concurrency / 2)
  local over = lane.pace <= now and lane.gap <= closest
  lane.pace, lane.gap = slot + lane.gap, over and 0 or math.max(closest, lane.gap * 0.95)
end

local function charge(call, slot, reason)
  -- At its slot, no more than the burst (or the call, if larger) may have gathered in either bucket.
  local function fullest(limit, size) return math.max(BURST * limit, size) - rate(limit) * (slot - lane.at) end
  lane.requests = math.min(lane.requests, fullest(lane.request_limit, 1))
  lane.tokens = math.min(lane.tokens, fullest(lane.token_limit, call.expected) + ratio() * lane.reserved)
  if lane.request_limit > 0 then lane.requests = lane.requests - 1 end
  lane.reserved = lane.reserved + call.estimate
  lane.last = math.max(lane.last, slot - lane.lag)
  redis.call('HSET', HELD, call.id, string.format('%.17g %.17g %s', call.estimate, slot - lane.lag, reason))
end

local function decide(call)
  redis.call('ZREM', WAITING, call.id)
  local held = find(call.id)
  if held then return remind(call, held) end
  if free() < 1 and cool_left <= max_wait then
    return refuse(call, cool_left + math.max(call.own, hold / lane.concurrency), 'concurrency')
  end
  local slot, reason, queue = slot_of(call)
  if slot - now - call.own > max_wait then
    -- Back when half of the queue is served: early enough that it never runs dry.
    return refuse(call, cool_left + math.max(0, queue - max_wait / 2), reason)
  end
  keep_file(slot)
  charge(call, slot, reason)
  return grant(call, slot, reason)
end

local answer = {0}
for i = 5, #ARGV - 2, 3 do
  local call = {id = ARGV[i], estimate = tonumber(ARGV[i + 1]), lease = tonumber(ARGV[i + 2])}
  call.expected = ratio() * call.estimate
  -- The time in which the limits pay for this call alone. It does not count against the longest wait: a call
  -- as large as that could never be sent.
  call.own = math.max(request_limit > 0 and 1 / rate(request_limit) or 0,
                      token_limit > 0 and call.expected / rate(token_limit) or 0)
  local granted, wait, reason = decide(call)
  answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = granted, math.ceil(wait), reason
  if granted == 0 then break end
end
save()
answer[1] = math.max(0, free())
return answer
