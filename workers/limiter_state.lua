-- Shared by every decision of the limiter: the clock, a lane's state, what a held slot is, how leases end.
-- All times are milliseconds of the server's clock, so that no worker's clock matters.
--
-- KEYS[1] lane     hash   the fields below
-- KEYS[2] flight   zset   request id -> end of its lease; granted and not settled
-- KEYS[3] held     hash   request id -> 'estimate slot reason'
-- KEYS[4] waiting  zset   refused request id -> when it will ask again
local LANE, FLIGHT, HELD, WAITING = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local START_CONCURRENCY, MAX_CONCURRENCY = 8, 1024
local BURST, WINDOW = 0.02, 61200 -- share of a minute's limit; the minute plus 1.2 s of late sending
local FIRST_GAP = 250             -- ms; enough for a 429 to come back before the next call is sent
local KEEP = 172800000            -- a lane unused for two days is forgotten

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local FIELDS = { -- name, value of a lane that is not known yet
  'requests', 0, 'tokens', 0,           -- levels of the two buckets; a missing bucket starts empty
  'at', now,                            -- when the levels were true; ahead of now in a cool-down: nothing refills
  'request_limit', 0, 'token_limit', 0, -- per minute, as last told; 0: none
  'reserved', 0,                        -- estimates of the calls in flight, not yet taken off `tokens`
  'actual', 0, 'estimated', 0,          -- decayed sums over successful calls; their ratio sharpens an estimate
  'concurrency', START_CONCURRENCY,     -- adaptive
  'hold', 0,                            -- mean ms from sending to settling; 0: not known yet
  'cool', 0,                            -- end of the cool-down
  'strikes', 0, 'throttled_at', 0,      -- recent cool-downs; last 429
  'cut_at', 0, 'peak', 0,               -- when concurrency was last cut, and from how much
  'last', 0,                            -- latest slot given, without the lag
  'lag', 0,                             -- all cool-downs so far: every slot that is held moves with it
  'pace', 0, 'gap', 0,                  -- next free place in the file that leaves a cool-down; its distance, 0: none
}
local lane, row = {}, {}
for i = 1, #FIELDS, 2 do row[#row + 1] = FIELDS[i] end
for i, value in ipairs(redis.call('HMGET', LANE, unpack(row))) do
  lane[row[i]] = tonumber(value or FIELDS[2 * i])
end

local function save()
  for i = 1, #FIELDS, 2 do FIELDS[i + 1] = lane[FIELDS[i]] end
  redis.call('HSET', LANE, unpack(FIELDS))
  local keep = KEEP + math.max(0, math.ceil(lane.cool - now))
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, keep) end
end

local function rate(limit) return limit * (1 - BURST) / WINDOW end -- per ms

-- Tokens that a call is expected to use for each one estimated.
local function ratio()
  if lane.estimated == 0 then return 1 end
  return lane.actual / lane.estimated
end

-- What is left for new calls: calls in flight count with what they are now expected to use.
local function token_level() return lane.tokens - ratio() * lane.reserved end

local function refill()
  if now <= lane.at then return end
  local passed = now - lane.at
  lane.at = now
  local full = BURST * lane.token_limit + ratio() * lane.reserved
  lane.requests = math.min(BURST * lane.request_limit, lane.requests + rate(lane.request_limit) * passed)
  lane.tokens = math.min(full, lane.tokens + rate(lane.token_limit) * passed)
end

local function find(id)
  local text = redis.call('HGET', HELD, id)
  if not text then return nil end
  local estimate, slot, reason = string.match(text, '^(%S+) (%S+) (%S+)$')
  return {id = id, estimate = tonumber(estimate), slot = tonumber(slot) + lane.lag, reason = reason}
end

-- A call leaves the flight and is charged: `tokens`, or when they are unknown what it was expected to use.
local function release(held, tokens)
  local charge = tokens or ratio() * held.estimate
  lane.reserved = lane.reserved - held.estimate
  if lane.token_limit > 0 then lane.tokens = lane.tokens - charge end
  redis.call('HDEL', HELD, held.id)
  redis.call('ZREM', FLIGHT, held.id)
end

-- Not sent after all: nothing is charged, and its request is given back.
local function refund(held)
  release(held, 0)
  if lane.request_limit > 0 then lane.requests = lane.requests + 1 end
end

-- Leases that are over free their concurrency; they may have been sent, so request and tokens stay charged.
local function end_leases()
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', FLIGHT, '-inf', now, 'LIMIT', 0, 100)) do
    local held = find(id)
    if held then release(held, nil) else redis.call('ZREM', FLIGHT, id) end
  end
end

local function free() return math.floor(lane.concurrency) - redis.call('ZCARD', FLIGHT) end
