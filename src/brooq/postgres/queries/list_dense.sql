-- Whether more jobs than a bound are in a state: then they are met on a walk (`list`), else they are fetched by the index of
-- their state (`list_few`). Planned with its values, see `list`.
-- $1 topic (null: any), $2 state, $3 bound
select count(*) > $3::bigint
from (
    select from "brooq".job where state = $2::text and ($1::text is null or topic = $1) limit $3::bigint + 1
) as found
