-- An engine has stopped: its row goes. Whoever is killed cannot say so; `announce` of the others clears up behind it.
-- $1 name
delete from "brooq".brooq_worker where name = $1::text
returning name
