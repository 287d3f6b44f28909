-- What a person sees of a lane. Writes nothing. Answers numbers as text, in the order of `LimiterView`.
refill()
local function text(number) return string.format('%.3f', number) end
local backlog = math.max(0, lane.cool - now)
if lane.request_limit > 0 then
  backlog = math.max(backlog, lane.at - now - math.min(0, lane.requests) / rate(lane.request_limit))
end
if lane.token_limit > 0 then
  backlog = math.max(backlog, lane.at - now - math.min(0, token_level()) / rate(lane.token_limit))
end
return {
  lane.request_limit > 0 and text(lane.requests) or '',
  lane.token_limit > 0 and text(token_level()) or '',
  text(redis.call('ZCOUNT', FLIGHT, '(' .. now, '+inf')),
  text(redis.call('ZCOUNT', WAITING, '(' .. now, '+inf')),
  text(math.floor(lane.concurrency)),
  lane.cool > now and text(lane.cool / 1000) or '',
  text(backlog / 1000),
  text(ratio()),
}
