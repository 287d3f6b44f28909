-- These calls are over. Answers {concurrency left, others waiting}.
-- ARGV: of each call id, actual tokens ('' unknown), result (ok, throttled, other, given_up), told cool-down ms
local MEMORY = 0.99           -- the ratio remembers about the last 100 calls ...
local PRIOR = 4               -- ... and starts as if four calls had used all that was estimated
-- A success forgives a part of a strike, so that an odd 429 costs a second and only those that follow each other more.
-- Where limits are told a 429 is rarer and says less: one success forgives it, and it is calm again in half the time.
local limited = lane.request_limit > 0 or lane.token_limit > 0
local CALM, FORGIVE = limited and 30000 or 60000, limited and 1 or 1 / 10
-- Around the concurrency at which the last 429 came, growth is slow until it is calm: most of the time is spent just below
-- a limit.
local NEAR, BEYOND, SLOW = 0.85, 1.1, 0.25
local MOST_STRIKES = 3        -- 1, 4, 16 s

local function learn_ratio(held, tokens)
  if not tokens or held.estimate <= 0 then return end
  if lane.estimated == 0 then lane.actual, lane.estimated = PRIOR * held.estimate, PRIOR * held.estimate end
  lane.actual = lane.actual * MEMORY + tokens
  lane.estimated = lane.estimated * MEMORY + held.estimate
end

-- More concurrency only where concurrency is what holds calls back: not while a limit does (the call had to
-- wait for one), and not while much of it is unused.
local function grow(held, in_flight)
  if held.reason ~= 'ok' or 2 * in_flight < lane.concurrency then return end
  local calm = now - math.max(lane.throttled_at, lane.cool) > CALM
  local near = lane.concurrency > NEAR * lane.peak and lane.concurrency < BEYOND * lane.peak
  local step = 1 / lane.concurrency
  if calm and not near then step = 1 elseif near and not calm then step = SLOW / lane.concurrency end
  lane.concurrency = math.min(MAX_CONCURRENCY, lane.concurrency + step)
end

local function succeed(held, tokens, in_flight)
  lane.strikes = math.max(0, lane.strikes - FORGIVE)
  local took = now - held.slot
  if took > 0 then lane.hold = lane.hold == 0 and took or lane.hold + (took - lane.hold) / 8 end
  learn_ratio(held, tokens)
  grow(held, in_flight)
end

-- One cut per cool-down (the 429s of calls that were already under way belong to the same one) and per duration of
-- a call: so long a cut takes to show. Who is told to wait for half a minute or more has sent a minute's calls in the
-- other half, with twice the concurrency that it takes.
local function cut(told)
  if now < lane.cut_at + lane.hold then return end
  if told >= 30000 then lane.concurrency = math.max(1, lane.concurrency / 2) end
  lane.cut_at, lane.peak, lane.concurrency = now, lane.concurrency, math.max(1, lane.concurrency * 0.7)
end

local function cool_down(told)
  if now >= lane.cool then
    cut(told)
    lane.strikes = math.min(MOST_STRIKES, lane.strikes + 1)
  end
  lane.throttled_at = now
  local ends = now + math.max(told, math.min(16000, 1000 * 4 ^ (lane.strikes - 1)))
  local longer = ends - math.max(now, lane.cool)
  if longer <= 0 then return end
  lane.cool = ends
  -- The whole timetable moves: the buckets stand still and every held slot keeps its place behind the others.
  lane.at, lane.lag = lane.at + longer, lane.lag + longer
  lane.pace = math.max(ends, lane.pace > now and lane.pace + longer or 0)
  lane.gap = FIRST_GAP
end

local function settle(id, tokens, result, told)
  local held = find(id)
  local in_flight = redis.call('ZCARD', FLIGHT)
  redis.call('ZREM', WAITING, id)
  if held and result == 'given_up' then refund(held) elseif held then release(held, tokens) end
  if held and result == 'ok' then succeed(held, tokens, in_flight) end
  if result == 'throttled' then cool_down(told) end
end

for i = 1, #ARGV - 3, 4 do settle(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], tonumber(ARGV[i + 3])) end
save()
return {math.max(0, free()), redis.call('ZCARD', WAITING)}
